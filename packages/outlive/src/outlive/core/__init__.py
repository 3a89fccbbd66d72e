"""What a run, a step, a wait, an approval, an effect and a session may do: tables without I/O."""
