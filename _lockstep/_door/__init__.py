"""The only folder of Lockstep that a child may have on its path; it holds one module, whose name nobody else has."""
