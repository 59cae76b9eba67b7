"""MG1xx, processes and launch: how processes are started, meet and part."""
