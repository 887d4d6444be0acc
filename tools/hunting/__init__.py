"""Small trainings with one weakness each, and how many plans a search needs to find it."""
