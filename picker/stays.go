package picker

import (
	"bytes"
	"cmp"
	"encoding/base64"
	"encoding/binary"
	"slices"
	"strings"
	"time"

	"github.com/penstock-project/penstock/picker/extproc"
	"github.com/penstock-project/penstock/picker/schedule"
)

type stayingClusters struct{ clusters }

func (stayingClusters) rank(k *pick) {
	session, stay := k.pool.stay(k.request.Headers.Header, time.Now())
	k.rankClusters(cmp.Or(k.routeCluster(), stay))
	if k.stay = session; session != 0 && k.charge != nil {
		picker, pool := k.picker, k.pool
		k.charge.moved = func(served string) { picker.moveStay(pool, session, served) }
	}
}

func (stayingClusters) answer(k *pick) {
	clusters{}.answer(k)
	// The picker of the chosen cluster gets its own part of the token, even if the import's part
	// has expired.
	if _, behind, ok := strings.Cut(string(k.request.Headers.Header(sessionTokenHeader)), tokenSeparator); ok {
		k.answer.Headers = append(k.answer.Headers, extproc.Header{Name: sessionTokenHeader, Value: behind})
	}
	k.picker.keepStay(k.pool, k.stay, k.clusters[0].Cluster)
}

func (pool *pool) stay(header func(string) []byte, now time.Time) (session uint64, cluster string) {
	if pool.stays == nil {
		return 0, ""
	}
	session, _ = pool.sessionID(header)
	if cluster = pool.readStayToken(header(sessionTokenHeader), now); cluster == "" {
		cluster = pool.stays.Find(session, now, pool.SessionTTL)
	}
	return session, cluster
}

// tokenSeparator separates the import's part of a token from the part of the cluster's picker.
const tokenSeparator = "."

const maxTokenBehind = 1 << 10

// stayToken returns the header with a session's token: a hash of the cluster's name (8 bytes) and
// the Unix time in seconds (8 bytes), both as base64, then the token of that cluster's picker. The
// token needs no secrecy: a forged token reaches only clusters of the import.
func (pool *pool) stayToken(served, behind string, now time.Time) (set extproc.Header) {
	name := pool.Clusters.behind(served)
	if name == "" || len(behind) > maxTokenBehind {
		return set
	}
	raw := binary.BigEndian.AppendUint64(nil, pool.clusterID(name))
	raw = binary.BigEndian.AppendUint64(raw, uint64(now.Unix()))
	return extproc.Header{Name: sessionTokenHeader,
		Value: base64.RawURLEncoding.EncodeToString(raw) + tokenSeparator + behind}
}

// readStayToken returns the cluster that a token names. It returns "" if the token is invalid or
// older than the pool's SessionTTL, or the import has no such cluster. The pickers' clocks may
// differ by up to SessionTTL.
func (pool *pool) readStayToken(token []byte, now time.Time) string {
	own, _, ok := bytes.Cut(token, []byte(tokenSeparator))
	if !ok || len(own) > maxSessionToken {
		return ""
	}
	raw, err := base64.RawURLEncoding.DecodeString(string(own))
	if err != nil || len(raw) != 16 {
		return ""
	}
	if age := now.Sub(time.Unix(int64(binary.BigEndian.Uint64(raw[8:])), 0)); age > pool.SessionTTL ||
		age < -pool.SessionTTL {
		return ""
	}
	id := binary.BigEndian.Uint64(raw)
	if i := slices.IndexFunc(pool.Clusters.List, func(c Cluster) bool { return pool.clusterID(c.Name) == id }); i >= 0 {
		return pool.Clusters.List[i].Name
	}
	return ""
}

func (pool *pool) clusterID(name string) uint64 {
	return schedule.SessionID([]byte(pool.Name + "\x00" + name))
}

func (p *Picker) keepStay(pool *pool, session uint64, cluster string) {
	if pool.stays != nil && pool.stays.Keep(session, cluster, time.Now(), pool.SessionTTL) && p.config.Sharing != nil {
		p.config.Sharing.Session(Session{Pool: pool.ID, ID: session, Cluster: cluster})
	}
}

func (p *Picker) moveStay(pool *pool, session uint64, served string) {
	if name := pool.Clusters.behind(served); name != "" {
		p.keepStay(pool, session, name)
	}
}

// learnStay records the cluster of a session that a peer reported. It keeps the pool's own copy of
// the cluster's name.
func (pool *pool) learnStay(session uint64, cluster string, on, now time.Time) {
	if pool.stays == nil {
		return
	}
	if i := slices.IndexFunc(pool.Clusters.List, func(c Cluster) bool { return c.Name == cluster }); i >= 0 {
		pool.stays.Learn(session, pool.Clusters.List[i].Name, on, now, pool.SessionTTL)
	}
}
