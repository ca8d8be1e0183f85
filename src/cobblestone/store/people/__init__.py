"""Users, teams, hosts, tokens, one-time codes and mails."""
