"""What a person sees of the commands: text, lines, options, and how they end."""
