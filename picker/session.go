package picker

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/endpoint"
	"github.com/penstock-project/penstock/picker/request"
	"github.com/penstock-project/penstock/picker/schedule"
)

// Request headers that name a session. The picker makes the token, which names an endpoint or an
// import's cluster (stays.go). Clients choose the ID.
const (
	sessionTokenHeader = "x-session-token"
	sessionIDHeader    = "x-session-id"
)

// SessionHeader is the ID of a route's session (sessionPersistence), whose requests stay at one
// server of the pool. Gateways remove this header from clients' requests, and from requests to
// model servers.
const SessionHeader = "penstock-peer-session"

const (
	DefaultSessionTTL    = 5 * time.Minute
	DefaultSessionCookie = "session-id"
)

// Only the first maxSessionID bytes of a session ID count. A longer token than maxSessionToken
// bytes is invalid.
const (
	maxSessionID    = 1 << 10
	maxSessionToken = 128
)

func (pool *pool) session(header func(string) []byte, now time.Time) (s schedule.Session) {
	if pool.sessions == nil {
		return s
	}
	if !pool.readsSessions() {
		return pool.routeSession(header(SessionHeader), now)
	}
	var by, byToken sessionBy
	s.ID, by = pool.sessionID(header)
	if token := header(sessionTokenHeader); len(token) > 0 {
		s.At, byToken = readSessionToken(token, now, pool.SessionTTL)
	}
	if by |= byToken; !s.At.IsValid() {
		s.At = pool.sessions.Find(s.ID, now, pool.SessionTTL)
	}
	s.By = uint16(by)
	return s
}

func (pool *pool) routeSession(id []byte, now time.Time) (s schedule.Session) {
	if len(id) == 0 {
		return s
	}
	s.ID, s.By = schedule.SessionID(id[:min(len(id), maxSessionID)]), uint16(bySessionRoute)
	s.At = pool.sessions.Find(s.ID, now, pool.SessionTTL)
	return s
}

func (pool *pool) readsSessions() bool { return schedule.UsesSessions(&pool.options) }

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

type sessionBy uint16

const (
	bySessionID sessionBy = 1 << iota
	bySessionCookie
	bySessionToken // takes precedence
	sessionExpired
	sessionUnreadable
	sessionKnown
	sessionKept
	sessionPicked
	bySessionRoute // SessionHeader names the session, and the strategy does not use sessions
)

func (pool *pool) keptSession(s schedule.Session, chosen netip.AddrPort) sessionBy {
	by := sessionBy(s.By)
	if pool.Strategy != "session" && by&bySessionRoute == 0 {
		return 0
	}
	by |= sessionPicked
	if s.At.IsValid() {
		by |= sessionKnown
	}
	if s.At == chosen {
		by |= sessionKept
	}
	return by
}

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
	case by&bySessionRoute != 0:
		name = "sessionPersistence of its route"
	}
	switch {
	case by&sessionExpired != 0:
		token = "; its token is expired"
	case by&sessionUnreadable != 0:
		token = "; its token is unreadable"
	}
	begins := "the first endpoint from its ID on"
	switch {
	case by&bySessionRoute != 0:
		begins = "the best endpoint"
	case by&(bySessionID|bySessionCookie) == 0:
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

type sessions struct{ servers }

func (sessions) answer(k *pick) {
	servers{}.answer(k)
	if len(k.ranked) == 0 {
		return
	}
	k.keep()
}

func (k *pick) keep() {
	at := k.ranked[0].Endpoint.Addr
	k.session = k.pool.keptSession(k.query.Session, at)
	if k.lease != nil {
		k.picker.keepSession(k.pool, k.query.Session.ID, at, k.at)
	}
}

// atSession ranks only the endpoint of the request's session. It returns false if the session has
// no endpoint, or if the endpoint accepts no requests. The strategy then chooses a new endpoint.
func (k *pick) atSession(s *schedule.Strategy, allowed func(*endpoint.Endpoint) bool) bool {
	at := k.query.Session.At
	if sessionBy(k.query.Session.By)&bySessionRoute == 0 || !at.IsValid() {
		return false
	}
	if k.lacking != nil {
		allowed = within(allowed, k.lacking.Keep())
	}
	here := func(e *endpoint.Endpoint) bool { return e.Addr == at }
	k.ranked = s.Rank(&k.query, k.at, k.endpoints, within(allowed, here), 1, &k.scratch)
	if len(k.ranked) == 0 || k.ranked[0].Suspect() {
		return false
	}
	others := within(allowed, func(e *endpoint.Endpoint) bool { return e.Addr != at })
	further := s.Preview(&k.query, k.at, k.endpoints, others, k.pool.Fallbacks, &k.others)
	k.ranked = append(slices.Clip(k.ranked), further...)
	return true
}

func (p *Picker) keepSession(pool *pool, id uint64, at netip.AddrPort, now time.Time) {
	if pool.sessions.Keep(id, at, now, pool.SessionTTL) && p.config.Sharing != nil {
		p.config.Sharing.Session(Session{Pool: pool.ID, ID: id, At: at})
	}
}

// LearnSession records a session that another process reported.
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

// Sessions calls f for the sessions of all pools until f returns false. In each pool, the last used
// session comes first.
func (p *Picker) Sessions(f func(Session) bool) {
	now, more := time.Now(), true
	for _, pool := range p.pools.now.Load().byName {
		pass := func(s Session, on time.Time) bool {
			s.Pool, s.Age = pool.ID, now.Sub(on).Milliseconds()
			more = f(s)
			return more
		}
		if pool.sessions != nil {
			pool.sessions.Each(now, pool.SessionTTL,
				func(id uint64, at netip.AddrPort, on time.Time) bool { return pass(Session{ID: id, At: at}, on) })
		}
		if pool.stays != nil {
			pool.stays.Each(now, pool.SessionTTL, func(id uint64, cluster string, on time.Time) bool {
				return pass(Session{ID: id, Cluster: cluster}, on)
			})
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

// The token is not secret: a forged token only reaches endpoints of the pool.
func sessionToken(endpoint string, now time.Time) string {
	return base64.RawURLEncoding.EncodeToString(strconv.AppendInt(append([]byte(endpoint), ' '), now.Unix(), 10))
}

// readSessionToken returns the endpoint of a token that a picker made within ttl. For an invalid
// token, it returns a zero address and the reason. The pickers' clocks may differ by up to ttl.
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
