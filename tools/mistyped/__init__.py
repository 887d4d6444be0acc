"""Wrong uses of Lockstep and what they are answered."""
