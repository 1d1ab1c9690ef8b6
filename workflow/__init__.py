"""The path from rank tables to the book: notebooks run by papermill, pages, HTML."""
