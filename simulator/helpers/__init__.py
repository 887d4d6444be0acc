"""What runs in helper processes: relay, keeper of hosts, warden, doorkeeper, trials."""

__all__: list[str] = []
