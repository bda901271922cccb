/* The sources that there are, for source.c and tests. */
#ifndef SL_CLIENT_DATA_SOURCES_H
#define SL_CLIENT_DATA_SOURCES_H

#include "client/data/source.h"

/* Binary files of CIFAR-10 and CIFAR-100 (https://www.cs.toronto.edu/~kriz/cifar.html). A record is the label bytes
 * (CIFAR-10: one; CIFAR-100: coarse, then fine, which is the label) and 3072 bytes of pixels, all red, then all green,
 * then all blue values, each 32 rows of 32. The set holds all pixels in memory. A last record that is cut off is DATA,
 * and both sizes are named; so is a label out of range, with its record's number, from 0 in its file. */
extern const struct sl_source sl_source_cifar10, sl_source_cifar100;

/* A folder of pictures, one sub-folder for each class, as torchvision's ImageFolder reads it. The folder is train/, and
 * val/ or test/, of the set's `dir`; `files` means nothing. Classes are the names of train's sub-folders, sorted by
 * bytes; pictures of a class are sorted by folder and name, in folders below it too; links are followed. Labels count
 * from 0. Opening reads names alone, and keeps them in one block; `sample` reads and decodes one file. Of max_samples
 * pictures every class has its share: they are spread evenly over the list. DATA: fewer than two classes, a class
 * without a picture, a class of the other split that train lacks. */
extern const struct sl_source sl_source_images;

/* Tar files (shards) of samples: a picture, and its class in NAME.cls as text, or in NAME.json as the member "label" or
 * "cls". `files` are names in `dir`, where {000..146} stands for each of these numbers; NULL: train*.tar, or val*.tar
 * and test*.tar. Shards must not be compressed: opening reads all headers, and `sample` goes to its place at once.
 * Samples keep the order of shards and members. Of max_samples every shard has its share. */
extern const struct sl_source sl_source_webdataset;

/* Rows of tokens made of random numbers, without a file: to try a network of tokens. Their lengths differ, and their
 * class is one of two that lies in the first token. */
extern const struct sl_source sl_source_made_tokens;

/* Tables: train.csv, and val.csv or test.csv, in `dir`. The first line names the columns; the column `label` holds the
 * classes, which count from 0 in the order of their numbers, or else of their bytes. A column of numbers becomes one
 * feature, less its mean and by its deviation in training; any other a feature for each of its texts there, 0 or 1. The
 * set is in memory. DATA: an empty cell, too few, a text that training lacks; *fail names file, line and column. */
extern const struct sl_source sl_source_csv;

/* Texts as rows of token ids, special tokens included, cut at max_tokens. They are kept beside the text (`cache`).
 * Rows of GLUE's tasks: train.tsv, and dev.tsv for the other split, in the task's folder or the one above it. Own
 * texts: train_files and `files`, or train and dev, val, validation or test with the end .tsv, .csv or .jsonl. A first
 * line (or each object) names the columns; `column` has one or two texts, `label` the class, by the order of the
 * numbers or else of the bytes of training's labels, or with `numbers` a number. DATA: an empty text, one that is no
 * UTF-8, too few columns, a label that training lacks; *fail names file and line. */
enum { SL_GLUE_SOURCES = 10 };
extern const struct sl_source sl_source_text, sl_source_glue[SL_GLUE_SOURCES];

#endif
