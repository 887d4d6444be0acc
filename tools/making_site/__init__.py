"""The pages of docs/ as a site: where they stand, what they lead to, and the pages that follow from the code."""
