"""One family of random trainings a file: `draw(random)` chooses its numbers, `train(strategy, record, ...)` trains.

Every program is right: under any strategy it computes what it computes on one device, up to rounding. What `draw`
returns is plain data and goes to `train` as keyword arguments, after `batch`, `steps` and `split`, which all families
have and each may set itself. The first line of a file, after its name, is what tables say of it. A family of which some
programs cannot run under a strategy has `SUITS(strategy)`.
"""
