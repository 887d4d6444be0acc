"""What a machine's command starts on another machine: the site of runs there, behind its standard streams."""

from __future__ import annotations

from _lockstep import names

if __name__ == "__main__":
    names.claim("simulator")
    from simulator.site.main import main

    main()
