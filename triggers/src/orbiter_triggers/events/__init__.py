"""What comes in from outside: checked, decoded and held against a trigger's filters. Pure."""
