"""Programs that are run under plain asyncio and under the law."""
