"""h2dlint finds host/device copies that ask to be asynchronous and are not."""

__version__ = "0.1.0"
