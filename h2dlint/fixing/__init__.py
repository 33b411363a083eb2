"""What fixers work with: the site of a copy, with the questions a rewrite asks and the edits it answers with."""

from h2dlint.fixing.document import Document
from h2dlint.fixing.options import FixOptions
from h2dlint.fixing.project_flags import Guard, Helper
from h2dlint.fixing.proposal import propose, sites_of
from h2dlint.fixing.site import Refusal, RefusedError, Site

__all__ = [
    "Document",
    "FixOptions",
    "Guard",
    "Helper",
    "Refusal",
    "RefusedError",
    "Site",
    "propose",
    "sites_of",
]
