-- A batch's jobs in the order of their numbers; open jobs for one computer, account or team; messages that nobody has handled.
CREATE INDEX wu_of_batch ON workunit (batch_id, id) WHERE batch_id IS NOT NULL;
CREATE INDEX wu_for_host ON workunit (target_host_id, id) WHERE target_host_id IS NOT NULL AND assimilate_state = 0;
CREATE INDEX wu_for_user ON workunit (target_user_id, id) WHERE target_user_id IS NOT NULL AND assimilate_state = 0;
CREATE INDEX wu_for_team ON workunit (target_team_id, id) WHERE target_team_id IS NOT NULL AND assimilate_state = 0;
CREATE INDEX msg_from_host_waiting ON msg_from_host (variety, id) WHERE handled = 0;
