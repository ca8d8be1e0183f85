"""Users, teams, hosts, credentials, consents and mails.

It knows ``averages`` and ``engine``, no other room of the verbs.
"""
