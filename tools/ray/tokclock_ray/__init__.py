"""Runs tokclock over the nodes of a Ray cluster: Ray places, starts and carries; the binary does the rest."""

__version__ = "0.1.0"
