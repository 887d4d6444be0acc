"""A project that trains something and knows nothing of Lockstep: only its tests do."""
