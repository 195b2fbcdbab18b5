"""What the processes of ``marl watch`` do: functions that get arguments and a way to tell how far they are."""
