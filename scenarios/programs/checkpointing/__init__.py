"""Programs that save under one strategy and restore under another."""

from __future__ import annotations
