package publish

import "math/bits"

// bitSet is a set of cache.Slot IDs: 1 KB for 8,000 names. A map of strings would take half a
// megabyte for each stream.
type bitSet struct{ detail []uint64 }

func (b *bitSet) has(id uint32) bool {
	w := int(id / 64)
	return w < len(b.detail) && b.detail[w]&(1<<(id%64)) != 0
}

func (b *bitSet) set(id uint32) {
	w := int(id / 64)
	if w >= len(b.detail) {
		b.detail = append(b.detail, make([]uint64, w+1-len(b.detail))...)
	}
	b.detail[w] |= 1 << (id % 64)
}

func (b *bitSet) clear(id uint32) {
	if w := int(id / 64); w < len(b.detail) {
		b.detail[w] &^= 1 << (id % 64)
	}
}

func (b *bitSet) all(yield func(id uint32) bool) {
	for w, word := range b.detail {
		for ; word != 0; word &= word - 1 {
			if !yield(uint32(w*64 + bits.TrailingZeros64(word))) {
				return
			}
		}
	}
}

func (b *bitSet) empty() bool {
	for _, word := range b.detail {
		if word != 0 {
			return false
		}
	}
	return true
}
