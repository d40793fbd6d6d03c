"""The browser of the token view's tests."""

from tests.token_view.conftest import browser, chromium

__all__ = ["browser", "chromium"]
