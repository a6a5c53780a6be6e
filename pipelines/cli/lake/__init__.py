"""Commands about the lake and the warehouse: exports, reports, alerts, object storage."""
