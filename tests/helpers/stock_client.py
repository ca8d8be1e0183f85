"""Debian's client as tests use it."""

from __future__ import annotations

from cobblestone.demo import stock_client


class StockClient(stock_client.StockClient):
    """A client that can be killed and looked at."""

    def kill(self) -> None:
        """As a crash would: the client alone."""
        assert self.process is not None
        self.process.kill()
        self.process.wait()

    def unparsed_xml(self) -> list[str]:
        """Lines in which the client says that it did not understand part of a reply."""
        return [line for line in self.log().splitlines() if "[unparsed_xml]" in line]
