package picker

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Headers of sessions (strategy "session"). The token is the picker's own: it names an endpoint, or a cluster
// of an import (stays.go), and is sent with every response.
// The ID is the client's.
const (
	sessionTokenHeader = "x-session-token"
	sessionIDHeader    = "x-session-id"
)

// Defaults of Pool.
const (
	DefaultSessionTTL    = 5 * time.Minute
	DefaultSessionCookie = "session-id"
)

// maxSessionID is how many bytes of an ID count, and maxSessionToken the length of the longest token.
const (
	maxSessionID    = 1 << 10
	maxSessionToken = 128
)

// session reads a request's session: by its token, else by its ID, else by the pool's cookie. header returns a header's value.
func (pool *pool) session(header func(string) []byte, now time.Time) (s schedule.Session) {
	if pool.sessions == nil {
		return s
	}
	var by, byToken sessionBy
	s.ID, by = pool.sessionID(header)
	if token := header(sessionTokenHeader); len(token) > 0 {
		s.At, byToken = readSessionToken(token, now, pool.SessionTTL)
	}
	if by |= byToken; !s.At.IsValid() {
		s.At = pool.sessions.Find(s.ID, now, pool.SessionTTL)
	}
	s.By = uint8(by)
	return s
}

// sessionID is the Session.ID of a request that names its session, and by what; 0 for others.
func (pool *pool) sessionID(header func(string) []byte) (uint64, sessionBy) {
	id, by := header(sessionIDHeader), bySessionID
	if p := pool.profile(); p != nil {
		for i := 0; i < len(p.SessionHeaders) && len(id) == 0; i++ {
			id = header(p.SessionHeaders[i])
		}
		if len(id) == 0 && p.SessionCookie != "" {
			id, by = cookie(header("cookie"), p.SessionCookie), bySessionCookie
		}
	}
	if len(id) == 0 {
		id, by = cookie(header("cookie"), pool.SessionCookie), bySessionCookie
	}
	if len(id) == 0 {
		return 0, 0
	}
	return schedule.SessionID(id[:min(len(id), maxSessionID)]), by
}

// sessionBy is how a request names its session, and what a pick of strategy "session" made of it.
type sessionBy uint8

const (
	bySessionID sessionBy = 1 << iota
	bySessionCookie
	bySessionToken    // which comes first
	sessionExpired    // the token is too old
	sessionUnreadable // the token is none
	sessionKnown      // at an endpoint
	sessionKept       // there: the pick names it
	sessionPicked     // by strategy "session"
)

// keptSession completes how a request names its session with what a pick has chosen for it; 0 for other strategies.
func (pool *pool) keptSession(s schedule.Session, chosen netip.AddrPort) sessionBy {
	if pool.Strategy != "session" {
		return 0
	}
	by := sessionBy(s.By) | sessionPicked
	if s.At.IsValid() {
		by |= sessionKnown
	}
	if s.At == chosen {
		by |= sessionKept
	}
	return by
}

// String describes a session for a reader; "" if no strategy has read it.
func (by sessionBy) String() string {
	if by == 0 {
		return ""
	}
	name, token := "", ""
	switch {
	case by&bySessionToken != 0:
		name = "header " + sessionTokenHeader
	case by&bySessionID != 0:
		name = "header " + sessionIDHeader
	case by&bySessionCookie != 0:
		name = "its cookie"
	}
	switch {
	case by&sessionExpired != 0:
		token = "; its token is expired"
	case by&sessionUnreadable != 0:
		token = "; its token is unreadable"
	}
	begins := "the first endpoint from its ID on"
	if by&(bySessionID|bySessionCookie) == 0 {
		begins = "the endpoint with the fewest requests in flight"
	}
	switch {
	case by&sessionKept != 0:
		return "kept at its endpoint, by " + name + token
	case by&sessionKnown != 0:
		return "its endpoint, by " + name + ", takes no requests: it begins again at " + begins + token
	case name != "":
		return "new or expired, by " + name + ": it begins at " + begins + token
	}
	return strings.TrimPrefix(cmp.Or(token, "; none"), "; ") + ": it begins at " + begins
}

// sessions are servers of which each session has one: its requests go there while that takes requests.
type sessions struct{ servers }

func (sessions) answer(k *pick) {
	servers{}.answer(k)
	if len(k.ranked) == 0 {
		return
	}
	at := k.ranked[0].Endpoint.Addr
	k.session = k.pool.keptSession(k.query.Session, at)
	if k.lease != nil {
		k.picker.keepSession(k.pool, k.query.Session.ID, at, k.at)
	}
}

// keepSession records that a session has a request at an endpoint, for all processes.
func (p *Picker) keepSession(pool *pool, id uint64, at netip.AddrPort, now time.Time) {
	if pool.sessions.Keep(id, at, now, pool.SessionTTL) && p.config.Sharing != nil {
		p.config.Sharing.Session(Session{Pool: pool.ID, ID: id, At: at})
	}
}

// LearnSession records where another process has a session. One of a pool, an endpoint or a cluster that this process does not have is
// ignored.
func (p *Picker) LearnSession(s Session) {
	pool := p.pools.now.Load().byName[s.Pool.String()]
	if pool != nil && s.Response != (request.ResponseID{}) {
		pool.learnResponse(s, time.Now())
		return
	}
	if pool == nil || s.Age < 0 || s.Age > pool.SessionTTL.Milliseconds() {
		return
	}
	now := time.Now()
	on := now.Add(-time.Duration(s.Age) * time.Millisecond)
	switch {
	case s.Cluster != "":
		pool.learnStay(s.ID, s.Cluster, on, now)
	case pool.sessions != nil && pool.snapshot.Find(s.At) != nil:
		pool.sessions.Learn(s.ID, s.At, on, now, pool.SessionTTL)
	}
}

// Sessions calls f for the sessions of all pools, of each the last used first, until it returns false.
func (p *Picker) Sessions(f func(Session) bool) {
	now, more := time.Now(), true
	for _, pool := range p.pools.now.Load().byName {
		pass := func(s Session, on time.Time) bool {
			s.Pool, s.Age = pool.ID, now.Sub(on).Milliseconds()
			more = f(s)
			return more
		}
		if pool.sessions != nil {
			pool.sessions.Each(now, pool.SessionTTL, func(id uint64, at netip.AddrPort, on time.Time) bool { return pass(Session{ID: id, At: at}, on) })
		}
		if pool.stays != nil {
			pool.stays.Each(now, pool.SessionTTL, func(id uint64, cluster string, on time.Time) bool { return pass(Session{ID: id, Cluster: cluster}, on) })
		}
		if pool.responses != nil && more {
			pool.responses.each(now, func(r *keptResponse) bool {
				return pass(Session{Response: r.id, Served: r.at, Client: r.client}, r.on)
			})
		}
		if !more {
			return
		}
	}
}

// cookie returns the value of a cookie; nil without it.
func cookie(header []byte, name string) []byte {
	for len(header) > 0 {
		var pair []byte
		pair, header, _ = bytes.Cut(header, []byte(";"))
		if key, value, ok := bytes.Cut(bytes.TrimSpace(pair), []byte("=")); ok && string(key) == name {
			return bytes.Trim(value, `"`)
		}
	}
	return nil
}

// sessionToken returns the token of a session that is at an endpoint: "ip:port" and when, in Unix seconds. It is no secret: with
// one of its own, a client reaches endpoints of the pool only.
func sessionToken(endpoint string, now time.Time) string {
	return base64.RawURLEncoding.EncodeToString(strconv.AppendInt(append([]byte(endpoint), ' '), now.Unix(), 10))
}

// readSessionToken returns the endpoint of a token that was made within ttl; zero for any other text, and what it is. Clocks may differ by
// as much.
func readSessionToken(token []byte, now time.Time, ttl time.Duration) (at netip.AddrPort, by sessionBy) {
	if len(token) > maxSessionToken {
		return at, sessionUnreadable
	}
	text, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(string(token), "="))
	if err != nil {
		return at, sessionUnreadable
	}
	address, made, _ := strings.Cut(string(text), " ")
	seconds, err := strconv.ParseInt(made, 10, 64)
	if err != nil {
		return at, sessionUnreadable
	}
	if at, err = netip.ParseAddrPort(address); err != nil {
		return netip.AddrPort{}, sessionUnreadable
	}
	if age := now.Sub(time.Unix(seconds, 0)); age > ttl || age < -ttl {
		return netip.AddrPort{}, sessionExpired
	}
	return at, bySessionToken
}
