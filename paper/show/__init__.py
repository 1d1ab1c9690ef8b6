"""How results are shown: figures, tables, words and judged claims."""
