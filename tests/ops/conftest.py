"""The processes of `tests.standin`, for operations on its device."""

from tests.standin.conftest import ask, name

__all__ = ["ask", "name"]
