"""All measurements, one after the other."""

from bench import retrieval, sse_response, turn

if __name__ == "__main__":
    turn.main()
    sse_response.main()
    retrieval.main()
