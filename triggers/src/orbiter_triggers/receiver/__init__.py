"""The receiver of webhooks: a request that was signed becomes an entry of its tenant's stream.

It keeps nothing, knows no trigger and has no right in the API server: what opens an address follows
from the address itself.
"""
