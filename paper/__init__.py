"""What only this paper needs: studies of single pages, and what shows them.
rbplib never imports it."""
