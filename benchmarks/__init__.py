"""Speed and cost of Lockstep, each next to a stated target and, where there is one, a peer measured in the same run."""
