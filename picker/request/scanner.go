package request

import (
	"bytes"
	"encoding/json"
	"slices"
	"sync"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"

	"github.com/penstock-project/penstock/picker/prefix"
)

const (
	maxKey = 6 * len("max_completion_tokens") // the longest key, with all characters as \uXXXX
	// maxModel bounds a model as written in JSON: 1,024 characters that are all escaped as \uXXXX.
	// The script that routes by the model (translator/envoy, scan.lua) has the same limit.
	maxModel = 6 * 1024
	// Objects and arrays nested deeper than maxDepth are hashed as written.
	maxDepth = 12
	maxInt   = 1<<31 - 1
	maxItems = 32
)

// These bytes separate parts of a hashed prompt. No JSON text contains them.
var (
	endOfRole = []byte{0xff}
	endOfText = []byte{0xfe}
)

type expected uint8

const (
	theBody expected = iota
	aKey
	aColon
	aValue
	aComma
	nothing // the body has ended, or is not an object
)

type sink uint8

const (
	dropped sink = iota
	captured
	digested
	written // values are hashed into frame.to
)

type frame struct {
	place place
	array bool
	to    *prefix.Builder
}

// Scanner reads a request's body chunk by chunk, and finds its Facts.
type Scanner struct {
	kind   Kind
	size   int
	lead   lead
	marked int
	expect expected
	frames [maxDepth]frame
	depth  int
	use    use

	inString bool
	escaped  bool // the last chunk ended in an odd run of backslashes
	sink     sink
	limit    int // of capture, in bytes
	capture  []byte
	tooLong  bool
	skipped  int // open brackets in a value whose members are not read

	inScalar bool
	first    byte
	number   uint64
	digits   bool

	model       []byte
	due         bool // settle must still handle the event of the last byte
	named       spans
	nvext       nvext
	bare        bool
	top         topMembers
	removed     []Member
	route       byte // first byte of the value of "route"; 0 for none
	target      *Target
	usage       []Splice
	stream      bool
	unstored    bool
	previous    ResponseID
	limitTokens int
	salt        uint64
	digest      xxhash.Digest
	front, rest prefix.Builder
	ids         prefix.Tokens
	lists       int // arrays in the prompt
	media       bool
	items       []uint64
	message     []byte

	chain [prefix.MaxBlocks]uint64
	// lastRaw and lastModel are the previous request's model. Most requests of a pool name the same
	// model, which then needs no copy.
	lastRaw, lastModel string
}

var scanners = sync.Pool{New: func() any { return new(Scanner) }}

// maxKept bounds the gRPC message memory kept for the next request, in bytes.
const maxKept = 1 << 20

// New returns a Scanner for a request of kind k.
func New(k Kind) *Scanner {
	s := scanners.Get().(*Scanner)
	s.kind = k
	return s
}

// Release ends the use of s and of its Facts. The memory is reused.
func (s *Scanner) Release() {
	s.size, s.lead, s.marked, s.expect, s.depth, s.use = 0, lead{}, 0, theBody, 0, unused
	s.inString, s.escaped, s.sink, s.skipped, s.inScalar = false, false, dropped, 0, false
	s.model, s.stream, s.limitTokens, s.salt = s.model[:0], false, 0, 0
	s.named.reset()
	s.nvext.reset()
	s.top.reset()
	s.removed, s.route = s.removed[:0], 0
	s.target, s.usage, s.bare, s.due = nil, nil, false, false
	s.unstored, s.previous = false, ResponseID{}
	s.front.Reset()
	s.rest.Reset()
	s.ids.Reset()
	s.lists, s.media, s.items = 0, false, s.items[:0]
	if s.message = s.message[:0]; cap(s.message) > maxKept {
		s.message = nil
	}
	scanners.Put(s)
}

// Write reads the next chunk of the body. It copies only gRPC messages and short values, such as
// the model.
func (s *Scanner) Write(chunk []byte) {
	base := s.size
	s.size += len(chunk)
	if s.kind.GRPC() {
		s.message = append(s.message, chunk...)
		return
	}
	s.lead.write(chunk)
	for i := 0; i < len(chunk) && s.expect != nothing; {
		switch {
		case s.inString:
			i += s.text(chunk[i:])
		case s.skipped > 0:
			i += s.nested(chunk[i:])
		case s.inScalar:
			i += s.scalar(chunk[i:])
		default:
			s.structure(chunk[i])
			i++
		}
		if s.due {
			s.settle(base + i)
		}
	}
}

// Facts returns the facts of the chunks written so far.
func (s *Scanner) Facts() Facts {
	if s.kind.GRPC() {
		s.readMessage()
	}
	f := Facts{Kind: s.kind, Model: s.Model(), Target: s.target, Stream: s.stream, MaxTokens: s.limitTokens,
		Size: s.size, Media: s.media,
		Items: s.items}
	f.Previous, f.Unstored = s.previous, s.unstored
	f.Route, f.GivesRoute = s.Route()
	if s.kind != OtherKind {
		if f.Tokens = (s.front.Size() + s.rest.Size()) / prefix.BytesPerToken; f.Tokens == 0 && s.size > 0 {
			f.Tokens = 1 // 0 would mean an unknown prompt
		}
		f.Chain = prefix.Join(&s.chain, prefix.Seed(s.salt, s.servedModel()), &s.front, &s.rest)
		// Exact is set only if the prompt is one list of token IDs, perhaps inside a list, without
		// images.
		if n := s.ids.Len(); n > 0 && n*prefix.BytesPerToken == s.rest.Size() && s.lists <= 2 && s.front.Empty() {
			f.Exact = s.ids.Exact()
		}
		f.Exact.Salt = s.salt
		f.Prompt = prefix.PromptHash(prefix.Seed(uint64(s.kind), s.servedModel()), &s.front, &s.rest)
	}
	return f
}

// Model returns Facts.Model for the chunks written so far.
func (s *Scanner) Model() string {
	if string(s.model) != s.lastRaw {
		s.lastRaw, s.lastModel = string(s.model), unquote(s.model)
	}
	return s.lastModel
}

func (s *Scanner) text(p []byte) int {
	from := 0
	if s.escaped {
		from = 1
		s.escaped = false
	}
	end, odd := closing(p, from)
	if end == len(p) {
		s.escaped = odd
		s.take(p)
		return len(p)
	}
	s.take(p[:end])
	s.inString = false
	if s.skipped > 0 {
		s.take(p[end : end+1])
	} else if s.expect == aKey {
		s.endKey()
	} else {
		s.endValue()
	}
	return end + 1
}

func (s *Scanner) take(p []byte) {
	switch s.sink {
	case written:
		if s.frame().to.Write(p); s.use == forPrevious {
			s.keep(p)
		}
	case digested:
		_, _ = s.digest.Write(p)
	case captured:
		s.keep(p)
	}
}

func (s *Scanner) keep(p []byte) {
	if s.tooLong = s.tooLong || len(s.capture)+len(p) > s.limit; !s.tooLong {
		s.capture = append(s.capture, p...)
	}
}

func (s *Scanner) frame() *frame { return &s.frames[s.depth-1] }

func (s *Scanner) endKey() {
	s.expect = aColon
	key := s.capture
	if s.tooLong {
		key = key[:0] // a longer key is unknown, like an empty one
	} else if bytes.IndexByte(key, '\\') >= 0 {
		key = []byte(unquote(key))
	}
	if s.use = s.kind.use(s.frame().place, key); s.top.on && s.depth == 1 {
		switch {
		case s.use == forRoute:
			s.top.now.name, s.route = MemberRoute, 0 // the last member counts, whatever its value
		case string(key) == "token_ids":
			s.top.now.name = MemberTokenIDs
		case s.top.options && string(key) == "stream_options":
			s.top.now.name = MemberStreamOptions
		}
	}
}

func (s *Scanner) nested(p []byte) int {
	for i, c := range p {
		switch c {
		case '"':
			s.inString = true
			s.take(p[:i+1])
			return i + 1
		case '{', '[':
			s.skipped++
		case '}', ']':
			if s.skipped--; s.skipped == 0 {
				s.take(p[:i+1])
				s.endValue()
				return i + 1
			}
		}
	}
	s.take(p)
	return len(p)
}

func (s *Scanner) structure(c byte) {
	switch c {
	case ' ', '\t', '\r', '\n':
		return
	case '}', ']':
		if s.expect != theBody {
			s.close()
			return
		}
	}
	switch s.expect {
	case theBody:
		if s.marked < len(mark) && c == mark[s.marked] {
			s.marked++
			return
		}
		if c != '{' {
			s.expect = nothing
			return
		}
		s.enter(inBody, false, nil)
		s.nvext.enters, s.due = &s.nvext.body, true
	case aKey:
		if c == '"' {
			s.inString, s.sink, s.limit = true, captured, maxKey
			s.capture, s.tooLong = s.capture[:0], false
			s.happened(topKey)
		}
	case aColon:
		if c == ':' {
			s.expect = aValue
			s.reset()
		}
	case aValue:
		s.value(c)
	case aComma:
		if c == ',' {
			s.happened(topComma)
			s.next()
		}
	}
}

func (s *Scanner) next() {
	if s.expect = aKey; s.frame().array {
		s.expect, s.use = aValue, s.frame().place.elements()
	}
}

func (s *Scanner) enter(p place, array bool, to *prefix.Builder) {
	s.frames[s.depth] = frame{p, array, to}
	s.depth++
	s.next()
}

func (s *Scanner) close() {
	left := s.frame()
	if s.depth--; s.depth == 0 {
		s.expect = nothing
		return
	}
	switch left.place {
	case inMessage:
		left.to.Write(endOfText)
	case inPrompt:
		s.lists++
		left.to.Mix(uint64(inPrompt)) // distinguishes [[1], [2]] from [[1, 2]]
	}
	s.expect = aComma
	s.happened(topEnd)
}

func (s *Scanner) reset() {
	switch s.use {
	case forModel:
		s.model = s.model[:0]
	case forStream:
		s.stream = false
	case forStore:
		s.unstored = false
	case forPrevious:
		s.previous = ResponseID{}
	case forLimit:
		s.limitTokens = 0
	case forRoute:
		s.route = 0
	case forSalt:
		s.salt = 0
	}
}

func (s *Scanner) value(c byte) {
	switch s.use {
	case forModel:
		s.named.pending, s.due = opened, true
	case forTokens:
		s.nvext.tokens = true
		fallthrough
	case forWorker:
		s.nvext.removed.pending, s.due = opened, true
	case forNvext:
		if s.nvext.seen, s.nvext.members = true, 0; c == '{' {
			s.nvext.enters, s.due = &s.nvext.members, true
		}
	}
	switch c {
	case '"':
		s.begin(true)
		s.inString = true
	case '{', '[':
		if to := s.use.opens(c); to != nowhere && s.depth < maxDepth {
			s.enter(to, c == '[', s.builder())
			return
		}
		s.begin(false)
		s.skipped = 1
		s.take([]byte{c})
	default:
		s.begin(false)
		s.inScalar, s.first, s.number, s.digits = true, c, 0, true
		s.scalar([]byte{c})
	}
}

func (s *Scanner) builder() *prefix.Builder {
	switch {
	case s.use == forFront:
		return &s.front
	case s.frame().to == nil:
		return &s.rest
	}
	return s.frame().to
}

func (s *Scanner) begin(text bool) {
	s.sink = dropped
	switch s.use {
	case forModel:
		if text {
			s.sink, s.limit, s.capture, s.tooLong = captured, maxModel, s.capture[:0], false
		}
	case forPrevious: // hashed as text and captured
		s.sink, s.limit, s.capture, s.tooLong = written, 6*maxResponseID, s.capture[:0], !text
	case forSalt, asImage, asSeed:
		s.sink = digested
		s.digest.Reset()
	case forPrompt, forContent, forFront, forRole, forText:
		if text || s.depth == maxDepth {
			s.sink = written
		}
	case asWritten, asFront:
		s.sink = written
	}
	if s.sink == written && s.depth == 1 { // a top-level member
		s.frame().to = &s.rest
		if s.use == asFront || s.use == forFront || s.use == forPrevious {
			s.frame().to = &s.front
		}
	}
}

func (s *Scanner) endValue() {
	s.expect = aComma
	switch s.use {
	case forModel:
		s.named.pending, s.due = closed, true
		if s.sink == captured && !s.tooLong {
			s.model = append(s.model[:0], s.capture...)
		}
	case forWorker, forTokens:
		s.nvext.removed.pending, s.due = closed, true
	case forPrevious:
		if !s.tooLong {
			s.previous = ResponseOf(unquote(s.capture))
		}
		s.front.Write(endOfText)
	case forSalt:
		s.salt = s.digest.Sum64()
	case asImage:
		s.media = true
		sum := s.digest.Sum64()
		if len(s.items) < maxItems && !slices.Contains(s.items, sum) {
			s.items = append(s.items, sum)
		}
		s.builder().Mix(sum)
	case asSeed:
		s.front.Mix(s.digest.Sum64())
	case forRole:
		s.builder().Write(endOfRole)
	case forPrompt, forFront:
		if s.sink == written {
			s.builder().Write(endOfText)
		}
	case asFront:
		s.front.Write(endOfText)
	}
	if s.depth == 1 {
		s.frame().to = nil
		s.happened(topEnd)
	}
}

func unquote(raw []byte) string {
	if len(raw) == 0 {
		return ""
	}
	if bytes.IndexByte(raw, '\\') < 0 && utf8.Valid(raw) {
		return string(raw)
	}
	quoted := make([]byte, 0, len(raw)+2)
	quoted = append(append(append(quoted, '"'), raw...), '"')
	var out string
	if json.Unmarshal(quoted, &out) != nil {
		return ""
	}
	return out
}
