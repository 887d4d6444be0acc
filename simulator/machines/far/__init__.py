"""A machine at the other end of a stream of bytes, and what has to be known of several before they are given tasks."""
