"""Code emission: operations with allocated registers become instruction words and assembly
statements.
"""
