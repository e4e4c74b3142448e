// Package set runs this cluster's part in its cluster set: it follows the ClusterSet, exports pools
// to members, and stores members' exports. It connects the packages of multicluster to each other
// and to the process. Follow is called after the commit of a change, so exports have only endpoints
// that Envoys here have, too.
//
// Before the first ClusterSet that gives this cluster a name, nothing runs and no port is served.
// That ClusterSet fixes this cluster's identity until the process ends. Members are served over
// mTLS only. A failed read or write affects nothing else; it is a finding on the ClusterSet or one
// log line.
package set
