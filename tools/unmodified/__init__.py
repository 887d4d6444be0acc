"""Scripts as people write them, and what runs them and their twins with one mistake."""
