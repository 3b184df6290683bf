"""What an attacker could try against others and the platform, one row an attempt."""
