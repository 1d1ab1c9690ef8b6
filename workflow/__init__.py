"""The path from rank tables to the book: tables measured, notebooks run by papermill, HTML."""
