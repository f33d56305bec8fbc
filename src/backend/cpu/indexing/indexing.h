// The CPU's kernels for indices, sorting, searching and scans.
#pragma once

#include "backend/backend.h"

namespace extensor::cpu {

void check_integers(const backend::CheckIntegersCall& call);
void index(const backend::IndexCall& call);
void select(const backend::SelectCall& call);
void nonzero(const backend::NonzeroCall& call);
void sort(const backend::SortCall& call);
void rank(const backend::RankCall& call);
void count(const backend::CountCall& call);
void search(const backend::SearchCall& call);
void scan(const backend::ScanCall& call);

}  // namespace extensor::cpu
