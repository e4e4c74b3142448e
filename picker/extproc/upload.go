package extproc

import (
	"context"
	"strconv"

	"google.golang.org/grpc"
)

// headerChunked is a copy of Transfer-Encoding, which Envoy removes before its filters run.
const headerChunked = "x-penstock-chunked"

// Uploads decides which requests with large bodies an Envoy may accept.
type Uploads interface {
	// Upload begins an upload at an Envoy that may hold limit bytes in all.
	Upload(ctx context.Context, gateway string, limit int64) Upload
}

// Upload is the memory in an Envoy that one request has reserved.
type Upload interface {
	Take(n int64) bool // reserves n more bytes, if there is room
	Close()
}

type unlimited struct{}

func (unlimited) Upload(context.Context, string, int64) Upload { return unlimited{} }
func (unlimited) Take(int64) bool                              { return true }
func (unlimited) Close()                                       {}

// maxHeld bounds how many bytes of one body an Envoy holds. Envoy rejects a larger body with 413,
// or forwards it without holding it for retries (translator/envoy, maxBody).
const maxHeld = 32 << 20

// upload serves a call about an upload. It reserves a declared content-length at once, and memory
// for other bodies as they arrive.
func (s *Server) upload(stream grpc.ServerStream, limit int64) error {
	u := s.Uploads.Upload(stream.Context(), s.Gateway(stream.Context()), limit)
	defer u.Close()
	anthropic := false
	for left := int64(maxHeld); ; {
		m := newMessage()
		if err := stream.RecvMsg(m); err != nil {
			m.Free()
			return nil
		}
		n := min(size(m), left)
		answer := passUpload(m)
		anthropic = anthropic || m.Kind == RequestHeaders && ofAnthropic(m)
		m.Free()
		left -= n
		full := n > 0 && !u.Take(n)
		if full {
			answer = immediateReply(&noRoom, anthropic)
		}
		if answer == nil {
			continue
		}
		if err := stream.SendMsg(answer); err != nil || full {
			return nil
		}
	}
}

func size(m *Message) int64 {
	length := m.Header("content-length")
	switch {
	case m.Kind == RequestBody:
		return int64(m.Body.Len())
	case m.Kind != RequestHeaders || m.EndOfStream || length == nil:
		return 0
	}
	n, err := strconv.ParseInt(string(length), 10, 64)
	if err != nil || n < 0 {
		return maxHeld
	}
	return n
}

func passUpload(m *Message) *reply {
	switch m.Kind {
	case RequestHeaders:
		if !m.EndOfStream && m.Header("content-length") == nil {
			return watchBody
		}
		return passRequestHeaders
	case RequestBody:
		return passRequestBody
	case RequestTrailers:
		return passRequestTrailers
	case ResponseHeaders:
		return passResponseHeaders
	case ResponseTrailers:
		return passResponseTrailers
	}
	return nil
}

var noRoom = Answer{Status: 503, Reason: "too_many_uploads",
	Message: "this gateway holds too many large requests: send a smaller one, or try again later"}

// watchBody passes the headers, removes headerChunked and requests the body as it arrives
// (ProcessingResponse.mode_override).
var watchBody = func() *reply {
	w := newWriter(16)
	mode := w.len()
	w.uint(6, 2)                    // response_trailer_mode: SEND
	w.uint(3, uint64(ModeStreamed)) // request_body_mode
	w.uint(2, 2)                    // response_header_mode: SKIP
	w.close(9, mode)
	headers := w.len()
	w.str(2, headerChunked) // HeaderMutation.remove_headers
	w.close(2, headers)     // CommonResponse.header_mutation
	w.close(1, headers)     // HeadersResponse.response
	w.close(replyRequestHeaders, headers)
	return w.done()
}()
