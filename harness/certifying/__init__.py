"""One report for a machine with GPUs: what it is, whether the scenarios hold on it, and how fast its strategies are."""

from harness.certifying.certificate import Certificate, Trial, certificate_page
from harness.certifying.certification import certify, gpus_to_certify

__all__ = ["Certificate", "Trial", "certificate_page", "certify", "gpus_to_certify"]
