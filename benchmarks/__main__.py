"""Run every benchmark: `python -m benchmarks [--json]`; one file alone: `python -m benchmarks.bench_cluster`."""

from __future__ import annotations

from benchmarks import (
    bench_cli,
    bench_cluster,
    bench_culprit,
    bench_ledger,
    bench_live,
    bench_machines,
    bench_network,
    bench_programs,
    bench_proof,
    bench_ray,
    bench_scripts,
    bench_strategies,
    bench_tf_tests,
    bench_verdict,
    bench_verify,
    bench_witness,
)
from benchmarks.measure import main

if __name__ == "__main__":
    main(
        (
            *bench_cli.MEASUREMENTS,
            *bench_cluster.MEASUREMENTS,
            *bench_verify.MEASUREMENTS,
            *bench_verdict.MEASUREMENTS,
            *bench_culprit.MEASUREMENTS,
            *bench_ledger.MEASUREMENTS,
            *bench_live.MEASUREMENTS,
            *bench_machines.MEASUREMENTS,
            *bench_network.MEASUREMENTS,
            *bench_programs.MEASUREMENTS,
            *bench_proof.MEASUREMENTS,
            *bench_ray.MEASUREMENTS,
            *bench_scripts.MEASUREMENTS,
            *bench_strategies.MEASUREMENTS,
            *bench_tf_tests.MEASUREMENTS,
            *bench_witness.MEASUREMENTS,
        ),
        __doc__ or "",
    )
