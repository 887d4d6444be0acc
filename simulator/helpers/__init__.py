"""What runs in helper processes: relay, keeper of hosts, warden, doorkeeper, the forkserver's imports, trials."""
