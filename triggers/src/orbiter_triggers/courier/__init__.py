"""The courier: what goes out to GitHub, and what a poll finds there that no webhook has told.

A program of its own, because it alone holds a credential of GitHub's: nobody reaches it from
outside, and it goes to one host. Webhooks are news, the poll is truth.
"""
