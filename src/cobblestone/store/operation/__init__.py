"""What operators ask and do: figures, checks of what must hold, audit log, processes, pages of lists."""
