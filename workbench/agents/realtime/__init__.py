"""The server side of the OpenAI Realtime protocol, put in front of a local agent."""
