"""Agents of files and modules, their built-in tools, and one turn of one."""
