"""Readers that give the rows of any table as blocks of floating-point numbers."""
