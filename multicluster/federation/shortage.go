package federation

// shortage is what had no room in the share of a member, so that it is asked for again once there
// is room: the exporter does not send unchanged parts a second time by itself.
type shortage struct {
	need int // the size of the smallest item that was denied, in bytes; 0: none was
	free int // the bytes that were free then
	most int // the number of pools that was too large; 0: there was room for all
}

// short records an item without room.
func (s *shortage) short(size int) {
	if s.free = 0; s.need == 0 || size < s.need {
		s.need = size
	}
}

// crowded records a pool that was one too many.
func (s *shortage) crowded(most int) { s.most = most }

// settle follows a snapshot. Pools whose head had no room make room for their own head alone:
// asking again for them would have the same result without end. So only further room counts.
func (a *assemblies) settle() {
	a.lack.free = a.share - a.bytes
	if a.lack.most > 0 {
		a.lack.most = len(a.of)
	}
}

// returned reports whether something that was denied has room now.
func (a *assemblies) returned() bool {
	s, free := a.lack, a.share-a.bytes
	fits := s.need > 0 && free >= s.need && (s.free < s.need || free-s.free >= s.need)
	return fits || s.most > 0 && len(a.of) < s.most
}
